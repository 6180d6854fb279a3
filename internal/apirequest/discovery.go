package apirequest

// GroupsDocument is what comes under /api and /apis, in any of its forms.
type GroupsDocument struct {
	Kind     string
	Versions []string // of APIVersions
	Groups   []struct {
		Name             string
		Versions         []struct{ GroupVersion, Version string }
		PreferredVersion struct{ Version string }
	}
	Items []struct { // of APIGroupDiscoveryList
		Metadata struct{ Name string }
		Versions []AggregatedVersion
	}
}

// AggregatedVersion is a version of a group with its resources.
type AggregatedVersion struct {
	Version   string
	Freshness string
	Resources []struct {
		Resource         string
		ResponseKind     struct{ Kind string }
		Scope            string
		SingularResource string
		ShortNames       []string
		Categories       []string
		Verbs            []string
		Subresources     []struct{ Subresource string }
	}
}
