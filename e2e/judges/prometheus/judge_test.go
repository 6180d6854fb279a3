package prometheus

import (
	"testing"

	"github.com/kopf-go/kopf"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

var _ = promqltest.LoadedStorage
var _ storage.Queryable
var _ = promql.NewEngine
var _ = textparse.New
var _ = rulefmt.Parse
var _ labels.Labels
var _ parser.Expr
var _ = kopf.Version

func TestX(t *testing.T) {}
