package main

import "github.com/kopf-go/kopf"

// Database is a database of the service.
type Database struct {
	kopf.Meta `json:",inline"`
	Spec      DatabaseSpec   `json:"spec"`
	Status    DatabaseStatus `json:"status,omitzero"`
}

// DatabaseSpec is the desired state.
type DatabaseSpec struct {
	Storage int64 `json:"storage" doc:"The storage in GiB. It can grow, and cannot shrink." minimum:"1" maximum:"1000" column:"Storage"`
}

// DatabaseStatus is the actual state.
type DatabaseStatus struct {
	Phase              string           `json:"phase,omitempty" column:"Phase"`
	Address            string           `json:"address,omitempty" column:"Address"`
	ObservedGeneration int64            `json:"observedGeneration,omitempty"`
	Conditions         []kopf.Condition `json:"conditions,omitempty" listKey:"type"`
}

var databases = kopf.Define[Database](&kopf.Definition{Group: "example.com", Version: "v1", ShortNames: []string{"db"}})
