# One file for both services: SERVICE is the folder of the one to build.

FROM golang:1.26.8-alpine AS build
WORKDIR /src

# Only for those who need a module proxy of their own; empty is Go's default.
ARG GOPROXY

# Before the sources, so that only a change of a dependency downloads anything.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod \
    go mod download

ARG SERVICE
ARG VERSION
ARG REVISION
COPY internal internal
COPY ${SERVICE} ${SERVICE}
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w \
      -X example.com/transactional-outbox/internal/telemetry.version=${VERSION} \
      -X example.com/transactional-outbox/internal/telemetry.revision=${REVISION}" -o /service "./${SERVICE}"

# Without a shell: the binary is also what migrates the database and checks the health.
FROM gcr.io/distroless/static-debian13:nonroot
COPY --from=build /service /service
ENTRYPOINT ["/service"]
