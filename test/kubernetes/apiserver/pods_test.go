package apiserver_test

import "encoding/json"

// object is a part of an object of the API.
type object struct {
	Metadata struct{ Name string }
	Spec     struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     map[string]any
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
	}
}

// pod returns a pod of the workload, as a controller makes it.
func (o object) pod() string {
	spec := o.Spec.Template.Spec
	for _, claim := range o.Spec.VolumeClaimTemplates {
		name := claim.Metadata.Name
		volumes, _ := spec["volumes"].([]any)
		spec["volumes"] = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name + "-" + o.Metadata.Name + "-0"}})
	}
	content, _ := json.Marshal(map[string]any{ // maps of JSON
		"apiVersion": "v1", "kind": "Pod", "spec": spec,
		"metadata": map[string]any{"name": o.Metadata.Name, "namespace": namespace, "labels": o.Spec.Template.Metadata.Labels},
	})
	return string(content)
}

// checkPods creates a pod of each workload, without keeping it. No controller runs, so the test
// does what it would do. Pod Security admits our pods.
func (c *cluster) checkPods() {
	c.Helper()
	c.must("", "create", "serviceaccount", "default", "-n", namespace) // a controller makes it
	var list struct{ Items []object }
	must(c.T, json.Unmarshal([]byte(c.must("", "get", "deploy,sts,job", "-n", namespace, "-o", "json")), &list))
	if len(list.Items) < 5 {
		c.Errorf("%d workloads", len(list.Items))
	}
	for _, o := range list.Items {
		c.must(o.pod(), "create", "--dry-run=server", "-f", "-")
	}
}
