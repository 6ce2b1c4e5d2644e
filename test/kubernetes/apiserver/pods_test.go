package apiserver_test

import (
	"encoding/json"
	"strings"
)

// object is a part of an object of the API.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     map[string]any
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } }
	}
}

// pod returns a pod of the workload, as a controller makes it. change may change it.
func (o object) pod(change func(pod, container map[string]any)) string {
	spec := clone(o.Spec.Template.Spec)
	for _, claim := range o.Spec.VolumeClaimTemplates {
		name := claim.Metadata.Name
		addVolume(spec, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": name + "-" + o.Metadata.Name + "-0"}})
	}
	change(spec, spec["containers"].([]any)[0].(map[string]any))
	content, _ := json.Marshal(map[string]any{ // maps of JSON
		"apiVersion": "v1", "kind": "Pod", "spec": spec,
		"metadata": map[string]any{"name": o.Metadata.Name, "namespace": namespace, "labels": o.Spec.Template.Metadata.Labels},
	})
	return string(content)
}

func addVolume(pod, volume map[string]any) {
	volumes, _ := pod["volumes"].([]any)
	pod["volumes"] = append(volumes, volume)
}

func clone(spec map[string]any) (copied map[string]any) {
	content, _ := json.Marshal(spec)
	_ = json.Unmarshal(content, &copied)
	return copied
}

// weaker are changes that the level restricted does not allow.
var weaker = map[string]func(pod, container map[string]any){
	"allowPrivilegeEscalation": func(_, container map[string]any) {
		delete(container["securityContext"].(map[string]any), "allowPrivilegeEscalation")
	},
	"runAsNonRoot": func(pod, _ map[string]any) { delete(pod["securityContext"].(map[string]any), "runAsNonRoot") },
	"seccompProfile": func(pod, _ map[string]any) {
		delete(pod["securityContext"].(map[string]any), "seccompProfile")
	},
	"unrestricted capabilities": func(_, container map[string]any) {
		delete(container["securityContext"].(map[string]any), "capabilities")
	},
	"hostPath": func(pod, _ map[string]any) {
		addVolume(pod, map[string]any{"name": "host", "hostPath": map[string]any{"path": "/"}})
	},
	"host namespaces": func(pod, _ map[string]any) { pod["hostNetwork"] = true },
}

// checkPods creates a pod of each workload, without keeping it. No controller runs, so the test
// does what it would do. Pod Security admits our pods, and refuses each of them with more rights.
func (c *cluster) checkPods() {
	c.Helper()
	c.must("", "create", "serviceaccount", "default", "-n", namespace) // a controller makes it
	var list struct{ Items []object }
	must(c.T, json.Unmarshal([]byte(c.must("", "get", "deploy,sts,job", "-n", namespace, "-o", "json")), &list))
	if len(list.Items) < 5 {
		c.Errorf("%d workloads", len(list.Items))
	}
	for _, o := range list.Items {
		c.must(o.pod(func(_, _ map[string]any) {}), "create", "--dry-run=server", "-f", "-")
		for reason, weaken := range weaker {
			c.refused(o.pod(weaken), reason, "create", "--dry-run=server", "-f", "-")
		}
	}
}

// checkRights: our pods have no role, so RBAC gives their accounts nothing of this namespace.
func (c *cluster) checkRights() {
	c.Helper()
	for _, account := range strings.Fields(c.must("", "get", "sa", "-n", namespace, "-o", "jsonpath={.items[*].metadata.name}")) {
		as := "--as=system:serviceaccount:" + namespace + ":" + account
		for _, what := range []string{"secrets", "pods", "configmaps"} {
			c.refused("", "is forbidden", "get", what, "-n", namespace, as)
		}
		c.refused("", "is forbidden", "delete", "deployment", "order-service-api", "-n", namespace, "--dry-run=server", as)
	}
}
