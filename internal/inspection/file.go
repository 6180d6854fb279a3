package inspection

import (
	"context"
	"fmt"
	"io"

	"github.com/kopf-go/kopf/internal/manifest"
	"github.com/kopf-go/kopf/internal/rawjson"
	"github.com/kopf-go/kopf/internal/yaml"
)

// ReadObject reads the only object of a file, or of the standard input for "-".
func ReadObject(ctx context.Context, file string, stdin io.Reader) (map[string]any, error) {
	files, err := manifest.ReadFiles(ctx, []string{file}, stdin)
	if err != nil {
		return nil, err
	}
	var all []map[string]any
	if file == "-" {
		file = files[0].Path
	}
	for _, f := range files {
		objects, err := yaml.ParseManifests(f.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		all = append(all, objects...)
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%s has %d objects: want one", file, len(all))
	}
	for _, field := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}} {
		value, _ := rawjson.Lookup(all[0], field...)
		if text, _ := value.(string); text == "" {
			return nil, fmt.Errorf("%s has an object without %s: want a whole object", file, field[len(field)-1])
		}
	}
	return all[0], nil
}
