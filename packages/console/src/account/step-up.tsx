/**
 * The password, and the code of the authenticator app if there is one, for calls that need both.
 */
import { useQuery } from "@tanstack/react-query";
import { useClient } from "../session/session.tsx";
import { type FormValues, TextField } from "../ui/form.tsx";

export function useWhoAmI() {
  const client = useClient();
  return useQuery({ queryKey: ["whoami"], queryFn: () => client.auth.whoami() });
}

export function StepUpFields({ recovery = false }: { recovery?: boolean }) {
  return (
    <>
      <TextField
        name="password"
        label="Your password"
        type="password"
        autoComplete="current-password"
        required
      />
      <CodeIfOn recovery={recovery} />
    </>
  );
}

function CodeIfOn({ recovery }: { recovery: boolean }) {
  const { data: me } = useWhoAmI();
  if (me?.totp?.enabled !== true) return null;
  return (
    <TextField
      name="code"
      label={`Code of your authenticator app${recovery ? ", or a recovery code" : ""}`}
      inputMode={recovery ? "text" : "numeric"}
      {...(recovery ? {} : { pattern: "\\d{6}" })}
      autoComplete="one-time-code"
      required
    />
  );
}

export function stepUp(values: FormValues): { password: string; totp_code?: string } {
  const code = values.text("code");
  return { password: values.text("password"), ...(code === "" ? {} : { totp_code: code }) };
}

/** The same for calls that accept a recovery code instead of the code. */
export function stepUpOrRecover(values: FormValues) {
  return { password: values.text("password"), ...values.code() };
}
