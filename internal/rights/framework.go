package rights

// Framework describes what kopf itself does for an operator.
type Framework struct {
	Narrow        bool     // only some namespaces are served
	Scanning      bool     // it watches which kinds and namespaces exist
	Objects       bool     // there are handlers of objects
	Far           bool     // some of these are for cluster-scoped kinds, whose events may be in any namespace
	Posting       bool     // it posts events
	Lease         string   // of the leader election; "" without one
	Peering       string   // name of the peering object; "" without one
	Webhooks      bool     // there are admission handlers
	Authority     string   // name of the Secret with the authority of the webhooks; "" for that of the Lease
	Configuration string   // name of the managed webhook configurations; "" if kopf does not manage them
	Compared      []string // names of the definitions compared with those of the cluster
	Installed     []string // names of the installed definitions
}

const definitionsGroup, definitionsPlural = "apiextensions.k8s.io", "customresourcedefinitions"

// Rights returns the permissions that kopf itself needs.
func (f *Framework) Rights() (all []Right) {
	add := func(scope Scope, group, resource, name, reason string, verbs ...string) {
		all = append(all, Right{Scope: scope, Group: group, Resource: resource, Name: name, Reason: reason, Verbs: verbs})
	}
	if f.Scanning {
		add(Cluster, definitionsGroup, definitionsPlural, "", "to notice new and changed custom resource definitions", "list", "watch")
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
	if f.Lease != "" { // a permission for a POST cannot be limited to a name
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
		const reason = "kopf keeps the webhook configurations"
		for _, plural := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			add(Cluster, "admissionregistration.k8s.io", plural, f.Configuration, reason, "list", "watch", "create", "patch")
		}
	}
	if authority := f.authority(); f.Webhooks && authority != "" {
		const reason = "replicas share the authority of their webhooks"
		add(Home, "", "secrets", authority, reason, "get", "list", "watch", "patch")
		add(Home, "", "secrets", "", reason, "create")
	}
	return all
}

// authority returns the name of the Secret with the authority of the webhooks, "" for none.
func (f *Framework) authority() string {
	if f.Authority == "" && f.Lease != "" {
		return f.Lease + "-webhooks"
	}
	return f.Authority
}
