package kopf

// schema is a stand-in.
type schema struct{}

// printerColumn is a stand-in.
type printerColumn struct{}
