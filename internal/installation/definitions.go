package installation

import (
	"fmt"
	"slices"

	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// Definitions returns the CRDs in files. The first one with a name wins, and others that differ cause a warning. Each named file must have a definition.
func Definitions(files []manifest.File, named []string) (all []map[string]any, warnings []string, err error) {
	sources := make(map[string]string) // file by name of the definition
	for _, file := range files {
		objects, err := yaml.ParseManifests(file.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file.Path, err)
		}
		objects = slices.DeleteFunc(objects, func(o map[string]any) bool { return o["kind"] != "CustomResourceDefinition" })
		if len(objects) == 0 && slices.Contains(named, file.Path) {
			return nil, nil, fmt.Errorf("--definitions: %s has no CustomResourceDefinition: want the file of one, or a folder", file.Path)
		}
		for _, object := range objects {
			name := nameOf(object)
			i := slices.IndexFunc(all, func(o map[string]any) bool { return nameOf(o) == name })
			if i < 0 {
				all, sources[name] = append(all, object), file.Path
			} else if !sameDefinition(all[i], object) {
				warnings = append(warnings, fmt.Sprintf("The definition %s in %s differs from that of %s, which is the one that is used", name, file.Path, sources[name]))
			}
		}
	}
	if len(named) > 0 && len(all) == 0 {
		return nil, nil, fmt.Errorf("--definitions: there is no CustomResourceDefinition in %q", named)
	}
	return all, warnings, nil
}

// nameOf returns the name of an object.
func nameOf(object map[string]any) string {
	name, _ := rawjson.AsMap(object["metadata"])["name"].(string)
	return name
}

// sameDefinition reports whether two definitions are equal except for descriptions and metadata.
func sameDefinition(a, b map[string]any) bool {
	return rawjson.Equal(WithoutDescriptions(a)["spec"], WithoutDescriptions(b)["spec"])
}
