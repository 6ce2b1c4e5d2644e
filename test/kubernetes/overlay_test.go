package kubernetes_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	repository = "../.."
	manifests  = repository + "/deploy/kubernetes"
)

// object is one rendered object.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	json     []byte
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
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(manifests, "overlays", overlay))
	must(t, err)
	var objects []object
	for _, resource := range resources.Resources() {
		var o object
		o.json, err = resource.MarshalJSON()
		must(t, err)
		must(t, json.Unmarshal(o.json, &o))
		objects = append(objects, o)
	}
	rendered.Store(overlay, objects)
	return objects
}

// all returns the objects of one kind.
func all[T any](t *testing.T, overlay, kind string) (found []T) {
	t.Helper()
	for _, o := range render(t, overlay) {
		if o.Kind == kind {
			var typed T
			must(t, json.Unmarshal(o.json, &typed))
			found = append(found, typed)
		}
	}
	return found
}

// workload is what makes pods.
type workload struct {
	name string
	pod  core.PodTemplateSpec
}

func workloads(t *testing.T, overlay string) (found []workload) {
	t.Helper()
	for _, d := range all[apps.Deployment](t, overlay, "Deployment") {
		found = append(found, workload{d.Name, d.Spec.Template})
	}
	for _, s := range all[apps.StatefulSet](t, overlay, "StatefulSet") {
		found = append(found, workload{s.Name, s.Spec.Template})
	}
	for _, j := range all[batch.Job](t, overlay, "Job") {
		found = append(found, workload{j.Name, j.Spec.Template})
	}
	return found
}

func (w workload) container() core.Container { return w.pod.Spec.Containers[0] }

// port returns the port of the container with this name, or 0.
func (w workload) port(name string) int32 {
	for _, port := range w.container().Ports {
		if port.Name == name {
			return port.ContainerPort
		}
	}
	return 0
}

// services are the programs of this repository.
var services = []string{"order-service", "notification-service"}

// ours says whether the pod runs a program of this repository, and which one.
func (w workload) ours() (service string, ok bool) {
	image, _, _ := strings.Cut(w.container().Image, ":")
	for _, service := range services {
		if strings.HasSuffix(image, "/"+service) {
			return service, true
		}
	}
	return "", false
}

// environment returns the variables of a pod, with those of its ConfigMaps.
func (w workload) environment(t *testing.T, overlay string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, from := range w.container().EnvFrom {
		for _, c := range all[core.ConfigMap](t, overlay, "ConfigMap") {
			if c.Name == from.ConfigMapRef.Name {
				maps.Copy(found, c.Data)
			}
		}
	}
	if len(w.container().EnvFrom) > 0 && len(found) == 0 {
		t.Errorf("the ConfigMap of %s does not exist", w.name)
	}
	for _, variable := range w.container().Env {
		found[variable.Name] = variable.Value
	}
	return found
}

// secrets returns the keys of each secret that a pod mounts.
func (w workload) secrets() map[string][]core.KeyToPath {
	found := map[string][]core.KeyToPath{}
	for _, v := range w.pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			found[source.Secret.Name] = append(found[source.Secret.Name], source.Secret.Items...)
		}
	}
	return found
}

// each runs a test for each overlay.
func each(t *testing.T, test func(t *testing.T, overlay string)) {
	t.Helper()
	for _, overlay := range []string{"demo", "production"} {
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
