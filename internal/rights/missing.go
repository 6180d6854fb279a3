package rights

import "strings"

// Missing returns the line that declares the permission which an API server refuses a request for, as its message says it; "" if the message is about something else.
func Missing(message string) (line string) {
	_, refused, _ := strings.Cut(message, " cannot ")
	words := strings.Fields(refused) // such as: get resource "pods" in API group "" in the namespace "default"
	if len(words) < 7 || words[1] != "resource" {
		return ""
	}
	return `kopf.Needs("` + qualified(strings.Trim(words[6], `"`), strings.Trim(words[2], `"`)) + `", "` + words[0] + `")`
}

// qualified returns a resource with its group, as in "deployments.apps/scale".
func qualified(group, resource string) string {
	if group == "" {
		return resource
	}
	i := strings.IndexByte(resource+"/", '/')
	return resource[:i] + "." + group + resource[i:]
}
