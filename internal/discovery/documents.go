package discovery

// groupsDocument is the response for /api and /apis, in any form.
type groupsDocument struct {
	Kind     string
	Versions []string // of APIVersions
	Groups   []struct {
		Name             string
		Versions         []struct{ GroupVersion, Version string }
		PreferredVersion struct{ Version string }
	}
	Items []struct { // of APIGroupDiscoveryList
		Metadata struct{ Name string }
		Versions []aggregatedVersion
	}
}

// aggregatedVersion is a version of a group with its resources.
type aggregatedVersion struct {
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

// versionDocument is the non-aggregated response for /api/VERSION and /apis/GROUP/VERSION.
type versionDocument struct {
	Resources []struct {
		Name, SingularName, Kind      string
		Namespaced                    bool
		ShortNames, Categories, Verbs []string
	}
}
