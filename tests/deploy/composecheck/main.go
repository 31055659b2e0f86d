// Composecheck reads a compose file with the loader that Docker Compose itself uses, and prints what it understood as
// JSON: merged, interpolated, checked for references that lead nowhere.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:2], cli.WithResolvedPaths(false), cli.WithConsistency(true))
	if err == nil {
		project, failed := options.LoadProject(context.Background())
		if err = failed; err == nil {
			var loaded []byte
			if loaded, err = project.MarshalJSON(); err == nil {
				fmt.Println(string(loaded))
				return
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
