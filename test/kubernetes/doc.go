// Package kubernetes proves that the services take the settings of their manifests in
// deploy/kubernetes, and that the manifests agree with the rest of the repository. It needs no
// cluster: it renders each overlay as kubectl apply -k does. The package apiserver, below it, gives
// the overlays to a real API server.
//
// It is a module of its own, so that the types of Kubernetes are not in the root's go.mod.
package kubernetes
