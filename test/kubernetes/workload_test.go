package kubernetes_test

import (
	"encoding/json"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// workload is what makes pods.
type workload struct {
	name     string
	replicas *int32
	pod      core.PodTemplateSpec
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

func (w workload) container() core.Container { return w.pod.Spec.Containers[0] }

// workloads returns all of an overlay, those of the RabbitmqCluster and the database clusters with
// the labels that their operators give to the pods.
func workloads(t *testing.T, overlay string) (found []workload) {
	t.Helper()
	for _, d := range all[apps.Deployment](t, overlay) {
		found = append(found, workload{d.Name, d.Spec.Replicas, d.Spec.Template})
	}
	for _, s := range all[apps.StatefulSet](t, overlay) {
		found = append(found, workload{s.Name, s.Spec.Replicas, s.Spec.Template})
	}
	for _, j := range all[batch.Job](t, overlay) {
		found = append(found, workload{j.Name, nil, j.Spec.Template})
	}
	return append(found, operated(t, overlay)...)
}

// operated returns the pods that operators make, as far as the manifests say what they are.
func operated(t *testing.T, overlay string) (found []workload) {
	t.Helper()
	for _, o := range render(t, overlay) {
		var cluster struct {
			Spec struct {
				InheritedMetadata struct{ Labels map[string]string }
				ImageName, Image  string
				Override          struct {
					StatefulSet struct {
						Spec struct{ Template core.PodTemplateSpec }
					}
				}
			}
		}
		must(t, json.Unmarshal(o.JSON, &cluster))
		w := workload{name: o.Metadata.Name}
		switch o.Kind {
		case "Cluster":
			w.pod.Labels = cluster.Spec.InheritedMetadata.Labels
			w.pod.Spec.Containers = []core.Container{{Image: cluster.Spec.ImageName}}
		case "RabbitmqCluster":
			w.pod = cluster.Spec.Override.StatefulSet.Spec.Template
			w.pod.Labels = map[string]string{
				"app.kubernetes.io/name": o.Metadata.Name, "app.kubernetes.io/component": "rabbitmq",
			}
			w.pod.Spec.Containers[0].Image = cluster.Spec.Image
		default:
			continue
		}
		found = append(found, w)
	}
	return found
}

// selected returns the workloads whose pods a selector matches.
func selected(t *testing.T, overlay string, selector labels.Selector) (found []workload) {
	t.Helper()
	for _, w := range workloads(t, overlay) {
		if !selector.Empty() && selector.Matches(labels.Set(w.pod.Labels)) {
			found = append(found, w)
		}
	}
	return found
}
