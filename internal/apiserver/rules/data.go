package rules

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/kopf-go/kopf/internal/apiserver/field"
	"github.com/kopf-go/kopf/internal/rawjson"
)

func dataFunctions() map[string]function {
	return map[string]function{
		"secretImmutable": immutableData,
		"secretData":      secretData,
		"secretType":      secretType,
		"configMapData":   configMapData,
	}
}

// maxData is the maximum total size of the values of a secret or a config map, in bytes.
const maxData = 1 << 20

// immutableData refuses changes to the given fields of an immutable secret or config map.
func immutableData(n *node, _ string, names []string) {
	const detail = "field is immutable when `immutable` is set"
	immutable := n.child("immutable")
	if immutable.old != true {
		return
	}
	if immutable.value != true {
		immutable.forbidden(detail)
	}
	for _, name := range names {
		if f := n.child(name); !same(f.value, f.old) {
			f.forbidden(detail)
		}
	}
}

// bytes returns the decoded value of a base64 text.
func (n *node) bytes() []byte {
	data, err := base64.StdEncoding.DecodeString(n.text())
	if err != nil {
		return nil
	}
	return data
}

func secretData(n *node, _ string, _ []string) {
	size := 0
	for _, entry := range n.entries() {
		entry.checkKey()
		size += len(entry.bytes())
	}
	if size > maxData {
		n.report(field.TooLong(n.path, nil, fmt.Sprintf("may not be more than %d bytes", maxData)))
	}
}

// checkKey checks the key of an entry.
func (n *node) checkKey() {
	for _, detail := range configKey(n.key()) {
		n.report(field.Invalid(n.path, n.key(), detail))
	}
}

// secretType checks the required keys of a secret, depending on its type.
func secretType(n *node, _ string, _ []string) {
	data := n.child("data")
	entry := func(key string) *node {
		e := data.child(key)
		e.path = data.path + "[" + key + "]"
		return e
	}
	require := func(keys ...string) {
		for _, key := range keys {
			if e := entry(key); e.value == nil {
				e.required("")
			}
		}
	}
	switch n.string("type") {
	case "kubernetes.io/service-account-token":
		const name = "kubernetes.io/service-account.name"
		if annotations := n.at("metadata.annotations"); annotations.child(name).text() == "" {
			n.report(field.Required(annotations.path+"["+name+"]", ""))
		}
	case "kubernetes.io/dockercfg":
		require(".dockercfg")
		entry(".dockercfg").checkJSON()
	case "kubernetes.io/dockerconfigjson":
		require(".dockerconfigjson")
		entry(".dockerconfigjson").checkJSON()
	case "kubernetes.io/basic-auth":
		if entry("username").value == nil && entry("password").value == nil {
			require("username", "password")
		}
	case "kubernetes.io/ssh-auth":
		if key := entry("ssh-privatekey"); len(key.bytes()) == 0 {
			key.required("")
		}
	case "kubernetes.io/tls":
		require("tls.crt", "tls.key")
	}
}

// checkJSON checks that an entry is a JSON object. Its error does not contain the entry, because it is secret.
func (n *node) checkJSON() {
	if n.value == nil {
		return
	}
	var object map[string]any
	if err := json.Unmarshal(n.bytes(), &object); err != nil {
		n.report(field.Invalid(n.path, "<secret contents redacted>", err.Error()))
	}
}

func configMapData(n *node, _ string, _ []string) {
	data, binary := n.child("data"), n.child("binaryData")
	size := 0
	for _, entry := range data.entries() {
		entry.checkKey()
		if _, both := rawjson.AsMap(binary.value)[entry.key()]; both {
			n.report(field.Invalid(entry.path, entry.key(), "duplicate of key present in binaryData"))
		}
		size += len(entry.text())
	}
	for _, entry := range binary.entries() {
		entry.checkKey()
		size += len(entry.bytes())
	}
	if size > maxData {
		n.report(field.TooLong("[]", nil, fmt.Sprintf("may not be more than %d bytes", maxData)))
	}
}
