package rights

import "strings"

// Missing returns the declaration of the permission for a rejected request, from the message of the API server, or "" for other messages.
func Missing(message string) (line string) {
	_, refused, _ := strings.Cut(message, " cannot ")
	words := strings.Fields(refused) // such as: get resource "pods" in API group "" in the namespace "default"
	if len(words) < 7 || words[1] != "resource" {
		return ""
	}
	return `kopf.Needs("` + qualified(strings.Trim(words[6], `"`), strings.Trim(words[2], `"`)) + `", "` + words[0] + `")`
}

// qualified returns a resource with its group, such as "deployments.apps/scale".
func qualified(group, resource string) string {
	if group == "" {
		return resource
	}
	i := strings.IndexByte(resource+"/", '/')
	return resource[:i] + "." + group + resource[i:]
}
