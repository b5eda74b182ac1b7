// Command interop runs franz-go against a server: scenarios by name, the shared set of records,
// the producer and reader of crash tests, and the state that one server hands over to another.
//
//	interop list
//	interop run HOST:PORT DIR NAME...
//	interop cross write|read HOST:PORT WRITER
//	interop crash produce|verify HOST:PORT FILE
//	interop handover write HOST:PORT WRITER
//	interop handover show HOST:PORT
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	arguments := os.Args[1:]
	var err error
	switch strings.Join(arguments[:min(2, len(arguments))], " ") {
	case "list":
		list()
	case "cross write":
		err = crossWrite(arguments[2], arguments[3])
	case "cross read":
		err = crossRead(arguments[2], arguments[3])
	case "crash produce":
		err = crashProduce(arguments[2], arguments[3])
	case "crash verify":
		err = crashVerify(arguments[2], arguments[3])
	case "handover write":
		err = handoverWrite(arguments[2], arguments[3])
	case "handover show":
		err = handoverShow(arguments[2])
	default:
		if len(arguments) < 3 || arguments[0] != "run" {
			err = fmt.Errorf("cannot make sense of %q", arguments)
			break
		}
		run(arguments[1], arguments[3:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
