// Package apiserver has the tests of deploy/kubernetes that need an API server. They build
// kube-apiserver, kubectl and etcd from their modules, start them on 127.0.0.1, and apply each
// overlay. There is no controller, no scheduler and no node, so no pod runs.
//
// It is a module of its own, because k8s.io/kubernetes has about 180 dependencies, and its own
// modules have the version v0.0.0 in its go.mod: each of them needs a replace line. `make verify
// ARGS=kubernetes` runs the tests; `make test` does not, because the first build takes many minutes.
package apiserver
