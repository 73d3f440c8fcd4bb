// Kubernetes as one program: etcd, the control plane, the node's components, cluster DNS and kubectl, chosen by the
// name that the program is called by, or by its first argument.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coredns/caddy"
	_ "github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/template"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

const self = "kubernetes"

func main() {
	name := filepath.Base(os.Args[0])
	if name == self && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "coredns":
		os.Exit(serveDNS())
	default:
		command := component(name)
		if command == nil {
			fmt.Fprintf(os.Stderr, "unknown component %q\n", name)
			os.Exit(2)
		}
		hideDNSFlags()
		os.Exit(cli.Run(command))
	}
}

func component(name string) *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kube-proxy":
		return proxy.NewProxyCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	case "kubectl":
		return kubectl.NewDefaultKubectlCommand()
	}
	return nil
}

// CoreDNS registers flags of its own for the whole process; in another component's flags they would be noise, and
// the short one would collide.
func hideDNSFlags() {
	kept := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	flag.VisitAll(func(f *flag.Flag) {
		if f.Name != "p" && f.Name != "dns.port" {
			kept.Var(f.Value, f.Name, f.Usage)
		}
	})
	flag.CommandLine = kept
}

// serveDNS serves the Corefile that the second argument names until a signal ends it.
func serveDNS() int {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: coredns COREFILE")
		return 2
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	caddy.AppName = "CoreDNS"
	caddy.Quiet = true
	caddy.TrapSignals()
	instance, err := caddy.Start(caddy.CaddyfileInput{Contents: text, Filepath: os.Args[1], ServerTypeName: "dns"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	instance.Wait()
	return 0
}
