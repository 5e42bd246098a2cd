/** The field for a code of the authenticator app, shown once the service has asked for one. */
import { Problem } from "@rfq-custody/client";
import { TextField } from "../ui/form.tsx";

export type CodeNeed = "none" | "code";

export function codeNeed(error: unknown, before: CodeNeed): CodeNeed {
  const asks = error instanceof Problem && error.code.startsWith("totp_");
  return asks ? "code" : before;
}

export function CodeField({ need }: { need: CodeNeed }) {
  if (need === "none") return null;
  return (
    <TextField
      name="code"
      label="Code of your authenticator app, or a recovery code"
      autoComplete="one-time-code"
      inputMode="text"
      required
    />
  );
}
