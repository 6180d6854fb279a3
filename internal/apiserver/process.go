package apiserver

import "sync"

// processing has the objects that controllers work on. Like the queue of a controller, it repeats the work for an object that changes in the meantime.
type processing struct {
	mu    sync.Mutex         // guards following
	dirty map[objectKey]bool // the objects in progress, and whether their work must be repeated
}

// process does some work of a controller on an object. If the object is in progress already, in another request or in a caller of this one, process returns
// at once, and the work is repeated when it has ended. Otherwise the end of each of many objects would start the work on all the others again.
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

// join reports whether an object is in progress already, and has its work repeated.
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
