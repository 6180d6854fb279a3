package ownership

import "github.com/kopf-go/kopf/internal/rawjson"

// HasEmptyMap reports whether the configuration has an empty map outside of the metadata: only an empty map can be lost.
func (c *Configuration) HasEmptyMap() bool { return c.hasEmpty }

// Lost reports whether an object lacks an empty map of the configuration, although its fields after an apply say that the manager owns the map. The API server
// causes this: when a map becomes empty, it removes the map together with the last field that is no longer applied. Another apply restores the map, unless
// objects of the kind never keep it, as [Checker.NoteLost] finds out. Lost ignores the metadata.
func (k *Checker) Lost(c *Configuration, fields, object []byte) bool {
	if !c.hasEmpty {
		return false
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	facts := k.kinds[typeMeta{c.apiVersion, c.kind}]
	for _, path := range c.lost(fields, object) {
		if facts == nil {
			return true
		}
		if _, known := facts.vanish[path]; !known {
			return true
		}
	}
	return false
}

// NoteLost learns, from the response to the repeated apply, which empty maps objects of the kind never keep.
func (k *Checker) NoteLost(c *Configuration, fields, object []byte) {
	paths := c.lost(fields, object)
	if len(paths) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, path := range paths {
		if _, known := k.factsOf(c).vanish[path]; !known {
			k.grow(c).vanish[path] = struct{}{}
		}
	}
}

// lost returns the paths of the lost empty maps.
func (c *Configuration) lost(fields, object []byte) (paths []uint64) {
	for key, value := range c.object {
		if key != "metadata" && hasEmptyMap(value) {
			paths = appendLostMember(paths, key, value, fields, object, rootPath)
		}
	}
	return paths
}

func appendLostMember(paths []uint64, key string, value any, fields, have []byte, path uint64) []uint64 {
	under, owned := rawjson.Find(fields, "f:"+key)
	if !owned {
		return paths
	}
	found, _ := rawjson.Find(have, key)
	return appendLost(paths, value, under, found, below(path, key))
}

// appendLost appends the paths of the empty maps in a value that are owned, but missing.
func appendLost(paths []uint64, wanted any, fields, have []byte, path uint64) []uint64 {
	switch v := wanted.(type) {
	case map[string]any:
		if len(v) == 0 && rawjson.IsNull(have) {
			paths = append(paths, path)
		}
		for key, child := range v {
			if hasEmptyMap(child) {
				paths = appendLostMember(paths, key, child, fields, have, path)
			}
		}
	case []any:
		for _, item := range v {
			if m, ok := item.(map[string]any); ok && hasEmptyMap(m) {
				paths = appendLostItem(paths, m, fields, have, below(path, itemKey))
			}
		}
	}
	return paths
}

// appendLostItem is appendLost for an item of a list with keys. It skips items with default keys, because there may be several.
func appendLostItem(paths []uint64, item map[string]any, fields, have []byte, path uint64) []uint64 {
	_ = rawjson.EachMember(fields, func(quoted, under []byte) bool { // malformed input has lost nothing
		name := []byte(rawjson.Unquote(quoted))
		if len(name) < 2 || name[0] != keys || agree(item, name[2:]) < countMembers(name[2:]) {
			return true
		}
		_ = rawjson.EachItem(have, func(one []byte) bool { // the same
			if !hasKeys(one, name[2:]) {
				return true
			}
			paths = appendLost(paths, item, under, one, path)
			return false
		})
		return false
	})
	return paths
}

// hasKeys reports whether an item has all the keys.
func hasKeys(item, keys []byte) bool {
	all := true
	err := rawjson.EachMember(keys, func(quoted, value []byte) bool {
		own, has := rawjson.Find(item, rawjson.Unquote(quoted))
		if decoded, err := rawjson.Decode(own); !has || err != nil || !sameScalar(decoded, value) {
			all = false
		}
		return all
	})
	return all && err == nil
}

// hasEmptyMap reports whether a value contains an empty map.
func hasEmptyMap(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			if hasEmptyMap(child) {
				return true
			}
		}
		return len(v) == 0
	case []any:
		for _, item := range v {
			if hasEmptyMap(item) {
				return true
			}
		}
	}
	return false
}
