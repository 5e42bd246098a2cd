/**
 * The password, and the code of the authenticator app if there is one, for calls that need both.
 */
import { useRead } from "../session/use-service.ts";
import { type FormValues, PasswordField, TextField } from "../ui/form.tsx";

export function useWhoAmI() {
  return useRead(["whoami"], (client) => client.auth.whoami());
}

export function StepUpFields({ recovery = false }: { recovery?: boolean }) {
  return (
    <>
      <PasswordField label="Your password" />
      <CodeIfOn recovery={recovery} />
    </>
  );
}

function CodeIfOn({ recovery }: { recovery: boolean }) {
  const me = useWhoAmI();
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
