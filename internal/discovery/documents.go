package discovery

// groupsDocument is what comes under /api and /apis, in any of its forms.
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

// versionDocument is what comes under /api/VERSION and /apis/GROUP/VERSION in the classic form.
type versionDocument struct {
	Resources []struct {
		Name, SingularName, Kind      string
		Namespaced                    bool
		ShortNames, Categories, Verbs []string
	}
}
