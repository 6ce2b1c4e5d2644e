// Package kubernetes has the tests of deploy/kubernetes. They need no cluster. They render each
// overlay as kubectl apply -k does, decode each object as strictly as an API server, and check what
// the objects mean: ports, selectors, settings, secrets, and who may reach whom.
//
// It is a module of its own, so that the types of Kubernetes are not in the root's go.mod.
package kubernetes
