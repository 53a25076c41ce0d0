// One step of decoding on `host`: paged attention of two sequences, then a product with a weight and a bias. Keys of
// zeros weigh all values alike and the values of key j are j, so that the right answer is known.
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"errors"
	"fmt"
	"log"
	"math"
	"strings"

	"quern.dev/quern"
)

const (
	batch, heads, kvHeads, dim         = 2, 4, 2, 64
	pageSize, pages, maxPages, columns = 4, 8, 3, 8
	width, row                         = heads * dim, kvHeads * dim
)

func decode(context *quern.Context) error {
	lengths, table := []int32{5, 9}, []int32{6, 1, 0, 3, 7, 2}
	q, queries := quern.New[quern.BF16](batch, heads, dim)
	k, _ := quern.New[quern.BF16](pages, pageSize, kvHeads, dim)
	v, values := quern.New[quern.BF16](pages, pageSize, kvHeads, dim)
	weight, weights := quern.New[quern.BF16](columns, width)
	attended, _ := quern.New[quern.BF16](batch, heads, dim)
	out, sums := quern.New[float32](batch, columns)
	for i := range queries {
		queries[i] = quern.ToBF16(1)
	}
	for i := range values {
		values[i] = quern.ToBF16(float32(math.NaN()))
	}
	for b, length := range lengths {
		for j := 0; j < int(length); j++ {
			slot := int(table[b*maxPages+j/pageSize])*pageSize + j%pageSize
			for i := 0; i < row; i++ {
				values[slot*row+i] = quern.ToBF16(float32(j + 10*(i/dim)))
			}
		}
	}
	for i := range weights {
		weights[i] = quern.ToBF16(float32(i/width+1) / width)
	}

	var workspace quern.Workspace
	err := context.Run(&quern.Attention{
		Flags: quern.AttentionCausal, Q: q, K: k, V: v, Out: attended, Lengths: quern.Of(lengths, batch),
		PageTable: quern.Of(table, batch, maxPages), MaxKvLen: maxPages * pageSize,
	}, &workspace)
	if err != nil {
		return err
	}
	rows := attended.Reshape(batch, width)
	bias, biases := quern.New[float32](columns)
	for n := range biases {
		biases[n] = float32(n)
	}
	err = context.Run(&quern.Gemm{A: rows, B: weight, Out: out, Epilogue: &quern.Epilogue{Bias: bias}}, &workspace)
	if err != nil {
		return err
	}
	for b, length := range lengths {
		for n := 0; n < columns; n++ {
			got, wanted := float64(sums[b*columns+n]), (float64(length-1)/2+5)*float64(n+1)+float64(n)
			if !(math.Abs(got-wanted) <= 1e-3*wanted) {
				return fmt.Errorf("out[%d][%d] is %f, it should be %f", b, n, got, wanted)
			}
		}
	}

	// A formula of one's own, over columns and a number: the same sums, twice.
	twice, err := context.Expression("(acc + col0) * scalar0")
	if err != nil {
		return err
	}
	doubled, doubles := quern.New[float32](batch, columns)
	epilogue := quern.Epilogue{Expression: twice, Operands: []*quern.Tensor{bias}, Scalars: []float32{2}}
	err = context.Run(&quern.Gemm{A: rows, B: weight, Out: doubled, Epilogue: &epilogue}, &workspace)
	if err != nil {
		return err
	}
	for i, got := range doubles {
		if !(math.Abs(float64(got-2*sums[i])) <= 1e-3*float64(got)) {
			return fmt.Errorf("doubled[%d] is %f, it should be twice %f", i, got, sums[i])
		}
	}

	// The error path: what is wrong comes back as a value, with its text; nothing has run.
	narrow, _ := quern.New[quern.BF16](columns, 32)
	var refused *quern.Error
	err = context.Run(&quern.Gemm{A: rows, B: narrow, Out: out}, &workspace)
	if !errors.As(err, &refused) || refused.Status != quern.Invalid || !strings.Contains(refused.Text, "b.shape[1] is 32") {
		return fmt.Errorf("a product of two widths was not refused as it should be: %v", err)
	}
	fmt.Printf("decode step: %.1f and %.1f, as they should be\n", sums[0], sums[columns])
	return nil
}

func main() {
	context, err := quern.Open(quern.Options{Device: quern.Device{Type: quern.DeviceHost}})
	if err != nil {
		log.Fatal(err)
	}
	defer context.Close()
	if err := decode(context); err != nil {
		log.Fatal(err)
	}
}
