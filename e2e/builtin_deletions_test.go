package e2e

import (
	"strings"
	"testing"
)

// TestBuiltinDeletions compares the responses of both servers to deletions of built-in kinds.
func TestBuiltinDeletions(t *testing.T) {
	t.Parallel()
	same := []string{"kind", "status", "details.kind", "metadata.generation", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "metadata.finalizers"}
	var all []sequence
	for _, kind := range builtinObjects {
		plural := kind.collection[strings.LastIndex(kind.collection, "/")+1:]
		if plural == "namespaces" || plural == "controllerrevisions" { // a controller deletes the former; the latter accept no patch on a real server
			continue
		}
		one := kind.collection + "/gone"
		create := call{"POST", kind.collection, asJSON, named(kind.object, "gone"), []string{"metadata.name"}}
		hold := call{"PATCH", one, asMerge, `{"metadata": {"finalizers": ["example.com/f"]}}`, nil}
		release := call{"PATCH", one, asMerge, `{"metadata": {"finalizers": null}}`, append(same, onlyCode)}
		all = append(all, sequence{"deletions of " + plural, []call{
			create,
			{"DELETE", one + "?dryRun=All", "", "", same},
			{"DELETE", one, "", "", same},
			create, hold,
			{"DELETE", one + "?gracePeriodSeconds=10", "", "", same},
			{"GET", one, "", "", same},
			{"DELETE", one, "", "", same},
			{"GET", one, "", "", same},
			release,
			{"GET", one, "", "", nil},
			create,
			{"DELETE", one + "?gracePeriodSeconds=0", "", "", same},
		}})
	}
	compareSequences(t, judge(t, ownCluster(t, nil)), all)
}
