package kinds

import "github.com/kopf-go/kopf"

// KopfGallery is the kind for kopf.
type KopfGallery struct {
	kopf.Meta `json:",inline"`
	Spec      GallerySpec   `json:"spec"`
	Status    GalleryStatus `json:"status,omitzero"`
}

// Anything is any JSON.
type Anything = kopf.AnyJSON
