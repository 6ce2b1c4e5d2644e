package kubernetes_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	networking "k8s.io/api/networking/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What each pod needs, and nothing else.
var servicesNeed = `
api -> order-db 5432
api -> consumer 4101
relay -> order-db 5432
relay -> rabbitmq 5672
relay -> consumer 4101
order-migrate -> order-db 5432
consumer -> notification-db 5432
consumer -> rabbitmq 5672
consumer -> relay 4100
notification-migrate -> notification-db 5432
ingress -> api 4000
monitoring -> api 4100
monitoring -> relay 4100
monitoring -> consumer 4101
monitoring -> rabbitmq 15692
`

var operatorsNeed = `
consumer -> outside 465
consumer -> outside 587
order-db -> order-db 5432
order-db -> order-db 8000
order-db -> outside 443
order-db -> outside 6443
notification-db -> notification-db 5432
notification-db -> notification-db 8000
notification-db -> outside 443
notification-db -> outside 6443
rabbitmq -> rabbitmq 25672
rabbitmq -> rabbitmq 35672
rabbitmq -> rabbitmq 4369
rabbitmq -> outside 443
rabbitmq -> outside 6443
cnpg -> order-db 5432
cnpg -> order-db 8000
cnpg -> notification-db 5432
cnpg -> notification-db 8000
rabbitmq-operator -> rabbitmq 15672
`

func TestPodsReachExactlyWhatTheyNeed(t *testing.T) {
	t.Parallel()
	for overlay, needs := range map[string]string{"demo": servicesNeed, "production": servicesNeed + operatorsNeed} {
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			want := strings.Split(strings.TrimSpace(strings.ReplaceAll(needs, "\n\n", "\n")), "\n")
			for _, p := range pods(t, overlay) {
				if p.namespace == nil {
					want = append(want, p.name+" -> dns 53")
				}
			}
			got := reachable(t, overlay)
			for _, way := range got {
				if !slices.Contains(want, way) {
					t.Errorf("allowed, and nobody needs it: %s", way)
				}
			}
			for _, way := range want {
				if !slices.Contains(got, way) {
					t.Errorf("needed, and not allowed: %s", way)
				}
			}
		})
	}
}

// peer is a pod, or something else that packets come from or go to.
type peer struct {
	name      string
	labels    labels.Set
	namespace labels.Set // of another namespace; nil: of ours
	ports     map[string]int32
}

// pods returns everything that the policies are about. Each kind of pod is there once.
func pods(t *testing.T, overlay string) []peer {
	t.Helper()
	namespace := func(name string) labels.Set { return labels.Set{"kubernetes.io/metadata.name": name} }
	found := []peer{
		{"outside", nil, labels.Set{}, nil},
		{"ingress", nil, labels.Set{"transactional-outbox/calls-the-api": "true"}, nil},
		{"monitoring", nil, namespace("monitoring"), nil},
		{"cnpg", nil, namespace("cnpg-system"), nil},
		{"rabbitmq-operator", nil, namespace("rabbitmq-system"), nil},
		{"dns", labels.Set{"k8s-app": "kube-dns"}, namespace("kube-system"), nil},
	}
	for _, w := range workloads(t, overlay) {
		ports := map[string]int32{}
		for _, p := range w.container().Ports {
			ports[p.Name] = p.ContainerPort
		}
		found = append(found, peer{shortName(w), w.pod.Labels, nil, ports})
	}
	return found
}

func shortName(w workload) string {
	switch component := w.pod.Labels["app.kubernetes.io/component"]; component {
	case "api", "relay", "consumer":
		return component
	default:
		name, _, _ := strings.Cut(strings.Replace(w.name, "-service", "", 1), "migrate-")
		return strings.TrimSuffix(name, "-") + map[bool]string{true: "-migrate"}[component == "migrate"]
	}
}

// reachable returns "from -> to port" for all that the policies allow to or from our pods.
func reachable(t *testing.T, overlay string) []string {
	t.Helper()
	policies, found := all[networking.NetworkPolicy](t, overlay), map[string]bool{}
	everybody := pods(t, overlay)
	for _, from := range everybody {
		for _, to := range everybody {
			if from.namespace != nil && to.namespace != nil {
				continue
			}
			for _, port := range numbers(policies, to) {
				if egress(t, policies, from, to, port) && ingress(t, policies, from, to, port) {
					found[fmt.Sprintf("%s -> %s %d", from.name, to.name, port)] = true
				}
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// numbers returns each port that a policy names.
func numbers(policies []*networking.NetworkPolicy, to peer) []int32 {
	found := map[int32]bool{}
	add := func(ports []networking.NetworkPolicyPort) {
		for _, p := range ports {
			found[number(p.Port, to)] = true
		}
	}
	for _, p := range policies {
		for _, rule := range p.Spec.Ingress {
			add(rule.Ports)
		}
		for _, rule := range p.Spec.Egress {
			add(rule.Ports)
		}
	}
	delete(found, 0)
	return slices.Collect(maps.Keys(found))
}

func number(port *intstr.IntOrString, to peer) int32 {
	if port.Type == intstr.String {
		return to.ports[port.StrVal]
	}
	return port.IntVal
}

func egress(t *testing.T, policies []*networking.NetworkPolicy, from, to peer, port int32) bool {
	t.Helper()
	return decide(t, policies, from, networking.PolicyTypeEgress, func(p *networking.NetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Egress, func(rule networking.NetworkPolicyEgressRule) bool {
			return anyPeer(t, rule.To, to) && anyPort(rule.Ports, to, port)
		})
	})
}

func ingress(t *testing.T, policies []*networking.NetworkPolicy, from, to peer, port int32) bool {
	t.Helper()
	return decide(t, policies, to, networking.PolicyTypeIngress, func(p *networking.NetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Ingress, func(rule networking.NetworkPolicyIngressRule) bool {
			return anyPeer(t, rule.From, from) && anyPort(rule.Ports, to, port)
		})
	})
}

// decide says whether the policies for a pod allow something. A pod without policies is open.
func decide(t *testing.T, policies []*networking.NetworkPolicy, pod peer, kind networking.PolicyType, allows func(*networking.NetworkPolicy) bool) bool {
	t.Helper()
	open := true
	for _, p := range policies {
		if pod.namespace != nil || !slices.Contains(p.Spec.PolicyTypes, kind) || !matches(t, &p.Spec.PodSelector, pod.labels) {
			continue
		}
		if allows(p) {
			return true
		}
		open = false
	}
	return open
}

// anyPeer says whether a rule names a peer. A block of addresses is for what is outside.
func anyPeer(t *testing.T, rules []networking.NetworkPolicyPeer, who peer) bool {
	t.Helper()
	return len(rules) == 0 || slices.ContainsFunc(rules, func(rule networking.NetworkPolicyPeer) bool {
		switch {
		case rule.IPBlock != nil:
			return who.name == "outside"
		case rule.NamespaceSelector == nil && who.namespace != nil:
			return false
		case rule.NamespaceSelector != nil && !matches(t, rule.NamespaceSelector, who.namespace):
			return false
		default:
			return rule.PodSelector == nil || matches(t, rule.PodSelector, who.labels)
		}
	})
}

func anyPort(rules []networking.NetworkPolicyPort, to peer, port int32) bool {
	return len(rules) == 0 || slices.ContainsFunc(rules, func(rule networking.NetworkPolicyPort) bool {
		first := number(rule.Port, to)
		return port == first || rule.EndPort != nil && first <= port && port <= *rule.EndPort
	})
}

func matches(t *testing.T, selector *meta.LabelSelector, set labels.Set) bool {
	t.Helper()
	s, err := meta.LabelSelectorAsSelector(selector)
	must(t, err)
	return s.Matches(set)
}
