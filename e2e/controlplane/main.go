// Command controlplane is a whole Kubernetes control plane in one binary: etcd, kube-apiserver,
// kube-controller-manager and kubectl, chosen by the name that it is called by, or, where there
// are no symbolic links, by its first argument. Tests build it once and run it on loopback.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // the container that runs this may have no time zones

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

var programs = map[string]func(){
	"etcd":                    func() { etcdmain.Main(os.Args) },
	"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kube-controller-manager": func() { os.Exit(cli.Run(controllers.NewControllerManagerCommand())) },
	"kubectl":                 runKubectl,
}

func main() {
	run, ok := programs[programName(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		run, ok = programs[programName(os.Args[1])]
		os.Args = os.Args[1:]
	}
	if !ok {
		fmt.Fprintln(os.Stderr, "call it etcd, kube-apiserver, kube-controller-manager or kubectl, or give one of these as the first argument")
		os.Exit(2)
	}
	run()
}

func programName(arg string) string {
	return strings.TrimSuffix(filepath.Base(arg), ".exe")
}

func runKubectl() {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
