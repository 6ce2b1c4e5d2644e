# One file for both services. SERVICE is the folder of the service to build.

FROM golang:1.26.8-alpine AS build
WORKDIR /src

# Only for builds that need another module proxy. Empty: Go's default.
ARG GOPROXY

# A go.work would raise the versions to those of the tests.
ENV GOWORK=off

# Before the sources, so that only a changed dependency causes a download. The root's tests need the
# module test/env, so Go reads its requirements.
COPY go.mod go.sum ./
COPY outbox/go.mod outbox/go.sum outbox/
COPY test/env/go.mod test/env/
RUN --mount=type=cache,target=/go/pkg/mod \
    go mod download

ARG SERVICE
ARG VERSION
ARG REVISION
COPY outbox outbox
COPY internal internal
COPY ${SERVICE} ${SERVICE}
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w \
      -X example.com/transactional-outbox/internal/telemetry.version=${VERSION} \
      -X example.com/transactional-outbox/internal/telemetry.revision=${REVISION}" -o /service "./${SERVICE}"

# Without a shell: the binary itself migrates the database and checks the health.
FROM gcr.io/distroless/static-debian13:nonroot
COPY --from=build /service /service
ENTRYPOINT ["/service"]
