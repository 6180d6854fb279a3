package installation

import "math"

// deployment returns the Deployment. Its pods satisfy the Pod security standard "restricted".
func (p *plan) deployment() Map {
	spec := Map{{Key: "replicas", Value: p.value("replicas", p.Replicas)}}
	if p.Lease == "" {
		spec = append(spec, Entry{Key: "strategy", Value: Map{{Key: "type", Value: "Recreate"}}, Comment: "without leader election, the old pod must end before the new one starts"})
	} else {
		spec = append(spec, Entry{Key: "strategy", Value: Map{{Key: "type", Value: "RollingUpdate"}, {Key: "rollingUpdate", Value: Map{
			{Key: "maxSurge", Value: 1}, {Key: "maxUnavailable", Value: 0, Comment: "a new replica is ready before an old one ends"},
		}}}})
	}
	return append(p.namespaced("apps/v1", "Deployment", p.Name, p.home()), Entry{Key: "spec", Value: append(spec,
		Entry{Key: "selector", Value: Map{{Key: "matchLabels", Value: p.labels()}}},
		Entry{Key: "template", Value: Map{{Key: "metadata", Value: append(Map{{Key: "labels", Value: p.labels()}}, p.optional("podAnnotations", "annotations")...)}, {Key: "spec", Value: p.pod()}}},
	)})
}

// optional returns the entry for a chart value that is empty by default.
func (p *plan) optional(name, key string) Map {
	if !p.chart {
		return nil
	}
	return Map{{Key: key, Value: Expression("toJson ."), If: "with $.Values." + name}}
}

// value returns a chart value, or the default outside of charts.
func (p *plan) value(name string, value any) any {
	if p.chart {
		return Expression("toJson $.Values." + name)
	}
	return value
}

// defaultGrace is the grace period of pods in Kubernetes, in seconds.
const defaultGrace = 30

func (p *plan) pod() Map {
	grace := "more than Settings.Queueing.ExitTimeout, and what daemons need to end"
	if p.Webhooks != nil {
		grace = "more than Settings.Queueing.ExitTimeout and Admission.ShutdownDelay, and what daemons and reviews need to end"
	}
	pod := Map{
		{Key: "serviceAccountName", Value: p.Name},
		{Key: "enableServiceLinks", Value: false},
		{Key: "terminationGracePeriodSeconds", Value: max(defaultGrace, int(math.Ceil(p.Grace.Seconds()))), Comment: grace},
	}
	if p.Lease != "" {
		pod = append(pod, Entry{Key: "topologySpreadConstraints", Value: []Map{{
			{Key: "maxSkew", Value: 1},
			{Key: "topologyKey", Value: "kubernetes.io/hostname"},
			{Key: "whenUnsatisfiable", Value: "ScheduleAnyway"},
			{Key: "labelSelector", Value: Map{{Key: "matchLabels", Value: p.labels()}}},
		}}})
	}
	for _, name := range []string{"imagePullSecrets", "nodeSelector", "affinity", "tolerations"} {
		pod = append(pod, p.optional(name, name)...)
	}
	return append(pod,
		Entry{Key: "securityContext", Value: Map{
			{Key: "runAsNonRoot", Value: true}, {Key: "runAsUser", Value: 65532}, {Key: "runAsGroup", Value: 65532},
			{Key: "seccompProfile", Value: Map{{Key: "type", Value: "RuntimeDefault"}}},
		}},
		Entry{Key: "containers", Value: []Map{p.container()}},
	)
}

// defaultResources are the default resource limits of the container.
var defaultResources = Map{
	{Key: "requests", Value: Map{{Key: "cpu", Value: "10m"}, {Key: "memory", Value: "32Mi"}}},
	{Key: "limits", Value: Map{{Key: "memory", Value: "128Mi"}}},
}

func (p *plan) container() Map {
	ports := []Map{{{Key: "name", Value: "probes"}, {Key: "containerPort", Value: ProbesPort}}}
	if p.Webhooks != nil {
		ports = append(ports, Map{{Key: "name", Value: "webhooks"}, {Key: "containerPort", Value: p.Webhooks.Port}})
	}
	env := []Item{{Value: Map{{Key: "name", Value: "POD_ID"}, {Key: "valueFrom", Value: Map{{Key: "fieldRef", Value: Map{{Key: "fieldPath", Value: "metadata.name"}}}}}}}}
	if p.chart {
		env = append(env, Item{Value: Expression("toJson ."), If: "range $.Values.env"})
	}
	probe := func(path string) Map { return Map{{Key: "path", Value: path}, {Key: "port", Value: "probes"}} }
	return Map{
		{Key: "name", Value: "operator"},
		{Key: "image", Value: p.value("image", p.Image)},
		{Key: "args", Value: p.args()},
		{Key: "env", Value: env},
		{Key: "ports", Value: ports},
		{Key: "livenessProbe", Value: Map{{Key: "httpGet", Value: probe("/healthz")}, {Key: "timeoutSeconds", Value: 15, Comment: "kopf limits the probes of an operator to 10 seconds"}}},
		{Key: "readinessProbe", Value: Map{{Key: "httpGet", Value: probe("/readyz")}}},
		{Key: "securityContext", Value: Map{
			{Key: "allowPrivilegeEscalation", Value: false}, {Key: "readOnlyRootFilesystem", Value: true},
			{Key: "capabilities", Value: Map{{Key: "drop", Value: []string{"ALL"}}}},
		}},
		{Key: "resources", Value: p.value("resources", defaultResources)},
	}
}

// defaultLogFormat is the default format of the log.
const defaultLogFormat = "json"

// args returns the arguments of the operator.
func (p *plan) args() []Item {
	args := []Item{{Value: "run"}}
	if p.chart {
		args = append(args, Item{Value: Expression(`printf "--namespace=%s" . | quote`), If: "range $.Values.namespaces"})
	} else {
		for _, namespace := range p.Namespaces {
			args = append(args, Item{Value: "--namespace=" + namespace})
		}
	}
	if p.Lease != "" {
		args = append(args, Item{Value: "--leader-elect=" + p.Lease})
	}
	for _, arg := range p.Args {
		args = append(args, Item{Value: arg})
	}
	format := any("--log-format=" + defaultLogFormat)
	if p.chart {
		format = Expression(`printf "--log-format=%s" $.Values.logFormat | quote`)
	}
	return append(args, Item{Value: format}, Item{Value: "--liveness=http://0.0.0.0:8080/healthz"})
}
