package installation

import "maps"

// This file removes the descriptions from definitions.

// WithoutDescriptions returns a definition whose schemas and columns have no descriptions.
func WithoutDescriptions(definition map[string]any) map[string]any {
	spec, _ := definition["spec"].(map[string]any)
	return with(definition, "spec", changed(spec, "versions", func(versions any) any {
		return each(versions, func(version any) any {
			v, _ := version.(map[string]any)
			v = changed(v, "schema", func(schema any) any {
				s, _ := schema.(map[string]any)
				return changed(s, "openAPIV3Schema", bareSchema)
			})
			return changed(v, "additionalPrinterColumns", func(columns any) any { return each(columns, undescribed) })
		})
	}))
}

// bareSchema returns a schema without descriptions, also in nested schemas. Properties may have any names, even "description".
func bareSchema(schema any) any {
	s, isMap := undescribed(schema).(map[string]any)
	if !isMap { // additionalProperties may be a boolean
		return schema
	}
	for _, key := range []string{"properties", "patternProperties"} {
		s = changed(s, key, func(properties any) any {
			p, _ := properties.(map[string]any)
			bare := make(map[string]any, len(p))
			for name, property := range p {
				bare[name] = bareSchema(property)
			}
			return bare
		})
	}
	for _, key := range []string{"items", "additionalProperties", "not"} {
		s = changed(s, key, bareSchema)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		s = changed(s, key, func(schemas any) any { return each(schemas, bareSchema) })
	}
	return s
}

// undescribed returns a copy of a map without its description.
func undescribed(value any) any {
	m, isMap := value.(map[string]any)
	if !isMap {
		return value
	}
	m = maps.Clone(m)
	delete(m, "description")
	return m
}

// changed returns a copy of a map with a changed value, if the key exists.
func changed(m map[string]any, key string, change func(any) any) map[string]any {
	value, isThere := m[key]
	if !isThere {
		return m
	}
	return with(m, key, change(value))
}

// each returns a list of the changed items of a list.
func each(list any, change func(any) any) any {
	items, _ := list.([]any)
	all := make([]any, len(items))
	for i, item := range items {
		all[i] = change(item)
	}
	return all
}

// with returns a copy of a map with a value set.
func with(m map[string]any, key string, value any) map[string]any {
	m = maps.Clone(m)
	if m == nil {
		m = make(map[string]any)
	}
	m[key] = value
	return m
}
