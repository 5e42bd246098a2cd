/** Response schemas that several routes of auth share. */
import * as z from "zod";
import { described } from "../http/fields.ts";
import { SCOPES } from "../platform/actor.ts";

export const Scopes = z.array(z.enum(SCOPES));

export const SessionToken = z
  .object({
    access_token: described(z.string(), "Token for `Authorization: Bearer` (a JWT)"),
    token_type: described(z.literal("Bearer"), "Always `Bearer`"),
    expires_in: described(z.int(), "Seconds until the session expires"),
    expires_at: described(z.iso.datetime(), "When the session expires"),
    user_id: described(z.uuid(), "Id of the user"),
    scopes: described(Scopes, "Scopes of the session"),
  })
  .meta({ id: "Session" });
