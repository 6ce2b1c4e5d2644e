package kubernetes_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	repository = "../.."
	manifests  = repository + "/deploy/kubernetes"
)

var overlays = []string{"demo", "production"}

// object is one rendered object.
type object struct {
	APIVersion string
	Kind       string
	Metadata   struct{ Name, Namespace string }
	JSON       []byte
	Typed      any // nil if the kind is a custom resource
}

func (o object) String() string { return o.Kind + "/" + o.Metadata.Name }

// types returns an empty object of each of Kubernetes' own kinds that the manifests may use.
var types = map[string]func() any{
	"v1/ConfigMap":                           func() any { return &core.ConfigMap{} },
	"v1/Namespace":                           func() any { return &core.Namespace{} },
	"v1/Secret":                              func() any { return &core.Secret{} },
	"v1/Service":                             func() any { return &core.Service{} },
	"v1/ServiceAccount":                      func() any { return &core.ServiceAccount{} },
	"apps/v1/Deployment":                     func() any { return &apps.Deployment{} },
	"apps/v1/StatefulSet":                    func() any { return &apps.StatefulSet{} },
	"batch/v1/Job":                           func() any { return &batch.Job{} },
	"autoscaling/v2/HorizontalPodAutoscaler": func() any { return &autoscaling.HorizontalPodAutoscaler{} },
	"networking.k8s.io/v1/NetworkPolicy":     func() any { return &networking.NetworkPolicy{} },
	"policy/v1/PodDisruptionBudget":          func() any { return &policy.PodDisruptionBudget{} },
}

// rendered keeps each overlay, because all tests read them and none changes them.
var rendered sync.Map

// render returns the objects of an overlay. Files outside of a kustomization's folder are refused,
// as kubectl apply -k refuses them.
func render(t *testing.T, overlay string) []object {
	t.Helper()
	if known, ok := rendered.Load(overlay); ok {
		return known.([]object)
	}
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(manifests, "overlays", overlay))
	must(t, err)
	var objects []object
	for _, resource := range all.Resources() {
		var o object
		o.JSON, err = resource.MarshalJSON()
		must(t, err)
		must(t, json.Unmarshal(o.JSON, &o))
		if empty, ok := types[o.APIVersion+"/"+o.Kind]; ok {
			o.Typed = empty()
			must(t, json.Unmarshal(o.JSON, o.Typed))
		}
		objects = append(objects, o)
	}
	rendered.Store(overlay, objects)
	return objects
}

// all returns the objects of one type.
func all[T any](t *testing.T, overlay string) (found []*T) {
	t.Helper()
	for _, o := range render(t, overlay) {
		if typed, ok := o.Typed.(*T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// each runs a test for each overlay.
func each(t *testing.T, test func(t *testing.T, overlay string)) {
	t.Helper()
	for _, overlay := range overlays {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			test(t, overlay)
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, name))
	must(t, err)
	return string(content)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
