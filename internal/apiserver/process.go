package apiserver

import "sync"

// processing is which objects are worked on by the controllers, as the queues of controllers know it: one that changes meanwhile is worked on once more.
type processing struct {
	mu    sync.Mutex         // guards following
	dirty map[objectKey]bool // of each object that is worked on, whether there is more to do
}

// process does some work of a controller on an object. If another request does it already, or the work itself has led here, it returns at once, and the work is repeated when it has
// ended. Without that, the end of each of many objects would begin the work on all the others again.
func (s *Server) process(object objectKey, work func()) {
	if s.processing.join(object) {
		return
	}
	ended := false
	defer func() {
		if !ended { // the handler of a webhook in this process has panicked
			s.processing.forget(object)
		}
	}()
	for !ended {
		work()
		ended = s.processing.end(object)
	}
}

// join reports whether an object is worked on already, and lets that be repeated.
func (p *processing) join(object objectKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, running := p.dirty[object]
	if p.dirty == nil {
		p.dirty = make(map[objectKey]bool)
	}
	p.dirty[object] = running
	return running
}

// end reports whether the work on an object has ended.
func (p *processing) end(object objectKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dirty[object] {
		p.dirty[object] = false
		return false
	}
	delete(p.dirty, object)
	return true
}

func (p *processing) forget(object objectKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.dirty, object)
}
