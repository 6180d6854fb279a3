package rules

import "maps"

// functions returns the rules in Go by their names in the table.
func functions() map[string]function {
	all := make(map[string]function)
	for _, some := range []map[string]function{
		podFunctions(), podUpdateFunctions(), containerFunctions(), volumeFunctions(), affinityFunctions(), resourceFunctions(),
		workloadFunctions(), jobFunctions(), serviceFunctions(), dataFunctions(), claimFunctions(), networkFunctions(),
		policyFunctions(), clusterFunctions(), eventFunctions(), webhookFunctions(), reviewFunctions(), warningFunctions(),
	} {
		maps.Copy(all, some)
	}
	return all
}
