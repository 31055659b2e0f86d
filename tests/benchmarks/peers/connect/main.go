// Redpanda Connect with the parts alone that the peer uses: Kafka, MySQL, its own processors, files and HTTP.
package main

import (
	"context"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
	_ "github.com/redpanda-data/connect/v4/public/components/kafka"
	_ "github.com/redpanda-data/connect/v4/public/components/sql/base"
)

func main() {
	service.RunCLI(context.Background())
}
