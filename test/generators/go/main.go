// Logs in and trades. Uses nothing but the client of oapi-codegen, generated as the package rfq.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"example.invalid/generators/rfq"
)

var ctx = context.Background()

func main() {
	args := os.Args[1:]
	baseUrl, assetId := args[0], args[5]
	taker := signedIn(baseUrl, args[1], args[2])
	maker := signedIn(baseUrl, args[3], args[4])

	balance, err := taker.GetUsdcBalanceWithResponse(ctx)
	check(err, balance.Body, balance.JSON200 != nil)

	terms := rfq.CreateRequestJSONRequestBody{}
	check(terms.FromRequestTermsByAmount(rfq.RequestTermsByAmount{
		VenueId: "venue_one", AssetId: assetId, Amount: "1000000", Side: rfq.RequestSideBid,
	}), nil, true)
	request, err := taker.CreateRequestWithResponse(ctx, nil, terms)
	check(err, request.Body, request.JSON201 != nil)

	requestId := request.JSON201.RequestId
	quote, err := maker.CreateQuoteWithResponse(ctx, nil, rfq.CreateQuoteJSONRequestBody{
		RequestId: requestId, Price: 650_000,
	})
	check(err, quote.Body, quote.JSON201 != nil)

	page, err := taker.ListQuotesOnRequestWithResponse(ctx, &rfq.ListQuotesOnRequestParams{
		RequestId: requestId,
	})
	check(err, page.Body, page.JSON200 != nil && len(page.JSON200.Items) == 1)

	accept := rfq.AcceptQuoteJSONRequestBody{}
	check(accept.FromAcceptQuoteBodyByQuoteId(rfq.AcceptQuoteBodyByQuoteId{
		QuoteId: page.JSON200.Items[0].QuoteId,
	}), nil, true)
	match, err := taker.AcceptQuoteWithResponse(ctx, accept)
	check(err, match.Body, match.JSON200 != nil && match.JSON200.QuoteId == quote.JSON201.QuoteId)

	refused, err := maker.AcceptQuoteWithResponse(ctx, accept)
	check(err, refused.Body, refused.ApplicationproblemJSON403 != nil)

	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"balance": balance.JSON200.Balance,
		"price":   match.JSON200.Price,
		"cost":    match.JSON200.UsdcAmount,
		"problem": refused.ApplicationproblemJSON403.Code,
	}), nil, true)
}

func signedIn(baseUrl, email, password string) *rfq.ClientWithResponses {
	public, err := rfq.NewClientWithResponses(baseUrl)
	check(err, nil, true)
	session, err := public.LoginWithResponse(ctx, rfq.LoginJSONRequestBody{
		Email: email, Password: password,
	})
	check(err, session.Body, session.JSON200 != nil)
	bearer := "Bearer " + session.JSON200.AccessToken
	client, err := rfq.NewClientWithResponses(baseUrl, rfq.WithRequestEditorFn(
		func(_ context.Context, request *http.Request) error {
			request.Header.Set("Authorization", bearer)
			return nil
		}))
	check(err, nil, true)
	return client
}

// Ends the program with the error, or with the body of a response that is not the expected one.
func check(err error, body []byte, expected bool) {
	if err == nil && expected {
		return
	}
	fmt.Fprintln(os.Stderr, err, string(body))
	os.Exit(1)
}
