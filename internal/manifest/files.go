package manifest

import "os"

// File is a file of manifests.
type File struct {
	Path string
	Data []byte
}

// ReadFiles reads the files in the order of their paths.
func ReadFiles(paths []string) ([]File, error) {
	var all []File
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, File{path, data})
	}
	return all, nil
}
