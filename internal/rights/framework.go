package rights

// Framework is what the framework does for an operator.
type Framework struct {
	Narrow        bool     // whether only some namespaces are served
	Scanning      bool     // whether it sees which kinds and namespaces come and go
	Objects       bool     // whether there are handlers of objects
	Far           bool     // whether some of these are for kinds without namespaces, the events about which are in one of all namespaces
	Posting       bool     // whether it posts events
	Lease         string   // for which replicas stand; "" without an election
	Peering       string   // the name of the peering object; "" without
	Webhooks      bool     // whether there are admission handlers
	Configuration string   // the name of the configurations that it keeps for these; "" if it does not
	Compared      []string // the names of the definitions that it compares with those of the cluster
	Installed     []string // and of those that it installs
}

const definitionsGroup, definitionsPlural = "apiextensions.k8s.io", "customresourcedefinitions"

// Rights returns what the framework needs for itself.
func (f *Framework) Rights() (all []Right) {
	add := func(scope Scope, group, resource, name, reason string, verbs ...string) {
		all = append(all, Right{Scope: scope, Group: group, Resource: resource, Name: name, Reason: reason, Verbs: verbs})
	}
	if f.Scanning {
		add(Cluster, definitionsGroup, definitionsPlural, "", "kopf sees which kinds come", "list", "watch")
		if f.Narrow {
			add(Cluster, "", "namespaces", "", "kopf sees which namespaces come", "list", "watch")
		}
	}
	for _, name := range f.Compared {
		add(Cluster, definitionsGroup, definitionsPlural, name, "kopf compares the definition", "get")
	}
	for _, name := range f.Installed {
		add(Cluster, definitionsGroup, definitionsPlural, name, "kopf installs the definition", "get", "create", "patch")
	}
	if f.Posting && f.Objects {
		scope := Served
		if f.Far {
			scope = Cluster
		}
		add(scope, "", "events", "", "kopf posts events about objects", "create", "patch")
	}
	if f.Lease != "" { // whose creation cannot be limited to its name
		const reason = "replicas elect a leader"
		add(Home, "coordination.k8s.io", "leases", "", reason, "create")
		add(Home, "coordination.k8s.io", "leases", f.Lease, reason, "get", "update")
		if f.Posting {
			add(Home, "", "events", "", "kopf posts events about the Lease", "create", "patch")
		}
	}
	if f.Peering != "" {
		scope, plural := Cluster, "clusterkopfpeerings"
		if f.Narrow {
			scope, plural = Served, "kopfpeerings"
		}
		add(scope, "kopf.dev", plural, "", "operators pause for others", "list", "watch")
		add(scope, "kopf.dev", plural, f.Peering, "operators pause for others", "patch")
	}
	if f.Webhooks && f.Configuration != "" {
		for _, plural := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			add(Cluster, "admissionregistration.k8s.io", plural, f.Configuration, "kopf keeps the webhook configurations", "patch")
		}
	}
	if f.Webhooks && f.Lease != "" {
		const reason = "replicas share the authority of their webhooks"
		add(Home, "", "secrets", f.Lease+"-webhooks", reason, "get", "list", "watch", "patch")
		add(Home, "", "secrets", "", reason, "create")
	}
	return all
}
