package metrics

import "sync/atomic"

// users are the metrics of users, nil as long as there are none. They come with the functions that make them, so that programs without any are linked without what they need.
var users atomic.Pointer[userPage]

// userPage adds the metrics of users to a page.
type userPage interface{ write(p *page) }
