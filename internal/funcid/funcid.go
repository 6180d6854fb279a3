// Package funcid tells functions apart, closures of one function literal included.
package funcid

import (
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	"github.com/kopf-go/kopf/internal/rawjson"
)

// ID identifies a function: two closures of one function literal have the same code and different data.
type ID struct{ Code, data uintptr }

// Of returns which function it is. The data is the closure, of which there is one for each time that the function literal was
// evaluated. A method that is named twice has two closures, so with a pointer as the receiver the data is that: the only thing such a
// closure holds. What the receiver is of other methods, the closure does not tell.
func Of(fn any) ID {
	holder := reflect.New(reflect.TypeOf(fn))
	holder.Elem().Set(reflect.ValueOf(fn))
	closure := reflect.NewAt(reflect.TypeFor[*[2]uintptr](), holder.UnsafePointer()).Elem() // a function is a pointer to its code and its data
	id := ID{Code: reflect.ValueOf(fn).Pointer(), data: closure.Pointer()}
	if f := runtime.FuncForPC(id.Code); f != nil && isPointerMethod(f.Name()) {
		id.data = closure.Interface().(*[2]uintptr)[1]
	}
	return id
}

// isPointerMethod reports whether a function is a method with a pointer as the receiver, made a value as in "pkg.(*Controller).create-fm".
func isPointerMethod(name string) bool {
	name, isMethod := strings.CutSuffix(name, "-fm")
	receiver, method, ok := strings.Cut(name[strings.LastIndex(name, ".(*")+1:], ").")
	return isMethod && ok && len(receiver) > len("(*") && strings.HasPrefix(receiver, "(*") && !strings.ContainsAny(receiver[1:], "()") &&
		method != "" && !strings.ContainsAny(method, ".()")
}

// Name returns the name of the function without its package and receiver's punctuation, as "create" or "Controller.create"; "" if the compiler has made it. The symbol is
// the whole name; "" if that is not known.
func (id ID) Name() (name, symbol string) {
	f := runtime.FuncForPC(id.Code)
	if f == nil {
		return "", ""
	}
	symbol = f.Name()
	_, name, _ = strings.Cut(symbol[strings.LastIndexByte(symbol, '/')+1:], ".")
	name = strings.NewReplacer("(*", "", "(", "", ")", "").Replace(strings.TrimSuffix(name, "-fm"))
	name = strings.ReplaceAll(name, "[...]", "") // type parameters
	if isAnonymous(name) {
		name = ""
	}
	return name, symbol
}

// isAnonymous reports whether a name was made by the compiler for a function literal, as in "main.func1" and "create.func2.1".
func isAnonymous(name string) bool {
	for _, part := range strings.Split(name, ".") {
		if number, ok := strings.CutPrefix(part, "func"); ok && rawjson.IsDigits(number) {
			return true
		}
	}
	return false
}

// Place returns the file and the line where the code of a function begins, as in "main.go:12".
func Place(code uintptr) string {
	file, line := runtime.FuncForPC(code).FileLine(code)
	return fmt.Sprintf("%s:%d", path.Base(filepath.ToSlash(file)), line)
}

// IsPlace reports whether a text is one of [Place], rather than a name.
func IsPlace(text string) bool { return strings.Contains(text, ":") }

// CallSite returns the line outside of a package that has called it.
func CallSite(packagePath string) string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, packagePath+".") || !more {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
	}
}
