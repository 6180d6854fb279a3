package kopf

// Client is a stand-in until client.go lands: whoever lands the real one deletes this line.
type Client struct{}

// Login is a stand-in until auth.go lands: whoever lands the real one deletes this line.
type Login struct{}
