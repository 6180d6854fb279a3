package safecall

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestPanicError(t *testing.T) {
	err := fmt.Errorf("around: %w", &PanicError{Value: io.EOF, Stack: []byte("stack")})
	if err.Error() != "around: panic: EOF" || !errors.Is(err, io.EOF) || string(StackOf(err)) != "stack" {
		t.Errorf("%v, stack %s", err, StackOf(err))
	}
	if StackOf(io.EOF) != nil || (&PanicError{Value: 1}).Unwrap() != nil {
		t.Error("there is a stack or a cause where there can be none")
	}
}

// TestGoexit checks that the end of a function's goroutine is an error, and ends no other one.
func TestGoexit(t *testing.T) {
	for name, fn := range map[string]func() error{
		"at once": exits, "nested": func() error { return Do(exits) }, "within Recover": func() error { return Recover(exits) },
	} {
		ended := false
		err := Do(func() error {
			defer func() { ended = true }()
			return fn()
		})
		if !errors.Is(err, ErrExited) || StackOf(err) == nil || !ended {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Users' functions that panic.

func panics() error { panic("oops") }

func nests() error { return panics() }

var noMap map[string]int

func writes() error {
	noMap["a"] = 1
	return nil
}

func dereferences() error {
	var p *struct{ A [1 << 20]int }
	return fmt.Errorf("%d", p.A[1<<19])
}

func repeats() error { return errors.New(strings.Repeat("x", -1)) }

func panicsAgain() error {
	defer func() { panic("again") }()
	return panics()
}

func recurses(n int) error {
	if n == 0 {
		return panics()
	}
	return recurses(n - 1)
}

func nestedDo() error { return Do(panics) }

func exits() error {
	runtime.Goexit()
	return nil
}

func exitsInDefer() error {
	defer runtime.Goexit()
	return panics()
}

// framework panics in a function of kopf.
func framework() error { return errors.New((*PanicError)(nil).Error()) }

// functionsOf returns the names of the functions in a stack trace, without packages and arguments.
func functionsOf(stack []byte) (all []string) {
	for line := range strings.Lines(string(stack)) {
		if name, _, found := strings.Cut(line, "("); found && !strings.HasPrefix(line, "\t") {
			all = append(all, name[strings.LastIndexByte(name, '.')+1:])
		}
	}
	return all
}

func TestStackOfPanic(t *testing.T) {
	for name, tt := range map[string]struct {
		fn   func() error
		want []string
	}{
		"a panic":            {panics, []string{"panics"}},
		"a nested function":  {nests, []string{"panics", "nests"}},
		"a nil map":          {writes, []string{"writes"}},
		"a nil pointer":      {dereferences, []string{"dereferences"}},
		"another package":    {repeats, []string{"Repeat", "repeats"}},
		"a panic in a panic": {panicsAgain, []string{"func1", "panic", "panics", "panicsAgain"}},
		"a nested call":      {nestedDo, []string{"panics"}},
		"Goexit":             {exits, []string{"exits"}},
		"Goexit in a panic":  {exitsInDefer, []string{"panic", "panics", "exitsInDefer"}},
	} {
		t.Run(name, func(t *testing.T) {
			stack := StackOf(Do(tt.fn))
			if got := functionsOf(stack); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q:\n%s", got, tt.want, stack)
			}
			if !strings.Contains(string(stack), "_test.go:") || strings.Contains(string(stack), "goroutine ") {
				t.Errorf("got the stack\n%s", stack)
			}
		})
	}
	t.Run("elided frames", func(t *testing.T) {
		stack := string(StackOf(Do(func() error { return recurses(1000) })))
		if !strings.HasPrefix(stack, own+".panics(") || !strings.Contains(stack, "elided") || strings.Contains(stack, "goroutine ") {
			t.Errorf("got the stack\n%s", stack)
		}
	})
	t.Run("the framework", func(t *testing.T) {
		stack := string(StackOf(Do(framework)))
		for _, want := range []string{"goroutine ", "debug.Stack(", "(*PanicError).Error(", ".framework(", own + ".protect("} {
			if !strings.Contains(stack, want) {
				t.Errorf("the stack is without %q:\n%s", want, stack)
			}
		}
	})
	t.Run("a misuse of the framework", func(t *testing.T) {
		frame := func(name, file string) string { return name + "(0x1)\n\t" + file + ":12 +0x1\n" }
		above := "goroutine 7 [running]:\n" + frame("runtime/debug.Stack", "/go/stack.go") + frame(own+".protect.func1", "/kopf/internal/safecall/safecall.go") + frame("panic", "/go/panic.go")
		inside := frame(module+".(*subhandlers).register", "/kopf/execution.go")
		kept := frame(module+".(*Change).Subhandler", "/kopf/handlers.go") + frame("main.create", "/op/main.go")
		outer := frame(module+".(*cycle).callHandler.func1", "/kopf/execution.go") + frame(own+".protect", "/kopf/internal/safecall/safecall.go")
		if got := string(userFrames([]byte(above+inside+kept+outer), true)); got != kept {
			t.Errorf("got\n%swant\n%s", got, kept)
		}
	})
	t.Run("no panic", func(t *testing.T) {
		for _, text := range []string{"", "goroutine 1 [running]:\n", "goroutine 1 [running]:\nmain.main()\n\t/main.go:1\n", "panic(1)\n", "panic(1)\n\t/panic.go:1\nruntime.sigpanic()\n", "\tx"} {
			if got := string(userFrames([]byte(text), true)); got != text {
				t.Errorf("%q: got %q", text, got)
			}
		}
	})
	t.Run("frames of the framework between and below", func(t *testing.T) {
		frame := func(name, file string) string { return name + "(0x1)\n\t" + file + ":12 +0x1\n" }
		outer := frame(own+".protect", "/kopf/internal/safecall/safecall.go") + frame(module+".(*cycle).run", "/kopf/reactor.go") + "created by " + module + ".x in goroutine 1\n\t/kopf/x.go:1\n"
		kept := frame("main.work-range1", "/op/main.go") + frame(module+".(*Client).List.func1", "/kopf/client_objects.go") + frame("main.work", "/op/main.go")
		stack := "goroutine 7 [running]:\n" + frame("runtime/debug.Stack", "/go/stack.go") + frame(own+".protect.func1", "/kopf/internal/safecall/safecall.go") + frame("panic", "/go/panic.go") +
			frame("runtime.panicmem", "/go/panic.go") + frame("runtime.sigpanic", "/go/signal.go") + kept + frame(module+".(*cycle).callHandler.func1", "/kopf/execution.go") + outer
		if got := string(userFrames([]byte(stack), false)); got != kept {
			t.Errorf("got\n%swant\n%s", got, kept)
		}
	})
}
