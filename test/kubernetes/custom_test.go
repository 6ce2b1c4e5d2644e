package kubernetes_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kubejson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// operator is a Go module that has the schemas of custom resources.
type operator struct{ module, version, sum, file string }

// The sums are those of go.sum. The modules are not in go.mod: no package of them is used, only
// a file.
var (
	rabbitmqOperator   = operator{"github.com/rabbitmq/cluster-operator/v2", "v2.16.0", "h1:oYJm+1tXIatGHtiUWyN9hGdO+0eWsXA/j1b81wh0IqI=", "config/crd/bases/rabbitmq.com_"}
	cloudNativePG      = operator{"github.com/cloudnative-pg/cloudnative-pg", "v1.27.0", "h1:mp0zlYO4vKAJmQdArWORWKr1lmB4Hj8JeBQGX5RBnpg=", "config/crd/bases/postgresql.cnpg.io_"}
	prometheusOperator = operator{"github.com/prometheus-operator/prometheus-operator", "v0.94.1", "h1:QEIb2wenPH+SdMN1xMf8l4Pmj00YYXXI6HlbLlQWkww=", "example/prometheus-operator-crd/monitoring.coreos.com_"}
)

// custom says where the schema of each custom resource is.
var custom = map[string]struct {
	operator
	plural string
}{
	"rabbitmq.com/v1beta1/RabbitmqCluster":    {rabbitmqOperator, "rabbitmqclusters"},
	"postgresql.cnpg.io/v1/Cluster":           {cloudNativePG, "clusters"},
	"monitoring.coreos.com/v1/ServiceMonitor": {prometheusOperator, "servicemonitors"},
	"monitoring.coreos.com/v1/PrometheusRule": {prometheusOperator, "prometheusrules"},
}

// checkCustom does with a custom resource what an API server does: it looks for unknown fields,
// sets defaults, and checks the schema and its rules.
func checkCustom(t *testing.T, o object) {
	t.Helper()
	where, ok := custom[o.APIVersion+"/"+o.Kind]
	if !ok {
		t.Errorf("%s: no schema is known for %s", o, o.APIVersion)
		return
	}
	props := where.schema(t, where.plural, filepath.Base(o.APIVersion))
	structural, err := schema.NewStructural(props)
	must(t, err)
	validator, _, err := validation.NewSchemaValidator(props)
	must(t, err)
	var value map[string]any
	must(t, kubejson.UnmarshalCaseSensitivePreserveInts(o.JSON, &value)) // the rules tell 1 from 1.0
	for _, unknown := range pruning.PruneWithOptions(value, structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		t.Errorf("%s: unknown field %s", o, unknown)
	}
	defaulting.Default(value, structural)
	errs := validation.ValidateCustomResource(nil, value, validator)
	rules := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	broken, _ := rules.Validate(context.Background(), nil, structural, value, nil, celconfig.RuntimeCELCostBudget)
	for _, err := range append(errs, broken...) {
		t.Errorf("%s: %v", o, err)
	}
}

// schema reads the schema of one version of a kind from the operator's module.
func (o operator) schema(t *testing.T, plural, version string) *apiextensions.JSONSchemaProps {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(o.download(t), o.file+plural+".yaml"))
	must(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	must(t, yaml.Unmarshal(content, &crd))
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			var props apiextensions.JSONSchemaProps
			must(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil))
			return &props
		}
	}
	t.Fatalf("%s has no version %s", plural, version)
	return nil
}

// download returns the module's folder in Go's cache.
func (o operator) download(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", o.module+"@"+o.version)
	command.Dir = os.TempDir() // outside of any module, so that no go.sum is changed
	out, err := command.Output()
	var got struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &got); err != nil || jsonErr != nil {
		t.Fatalf("%s@%s: %v %v %s", o.module, o.version, err, jsonErr, got.Error)
	}
	if got.Sum != o.sum {
		t.Fatalf("%s@%s has the sum %s, not %s", o.module, o.version, got.Sum, o.sum)
	}
	return got.Dir
}
