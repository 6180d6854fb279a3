package kopf

type handler struct{}
type subhandlers struct{}
