package kubernetes_test

import (
	"testing"

	kubejson "sigs.k8s.io/json"
)

func TestEveryObjectHasOnlyKnownFields(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		for _, o := range render(t, overlay) {
			if o.Typed == nil {
				checkCustom(t, o)
				continue
			}
			strict, err := kubejson.UnmarshalStrict(o.JSON, types[o.APIVersion+"/"+o.Kind]())
			must(t, err)
			for _, err := range strict {
				t.Errorf("%s: %v", o, err)
			}
		}
	})
}

func TestEveryObjectIsInTheNamespace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		for _, o := range render(t, overlay) {
			if o.Kind != "Namespace" && o.Metadata.Namespace != "transactional-outbox" {
				t.Errorf("%s is in the namespace %q", o, o.Metadata.Namespace)
			}
		}
	})
}
