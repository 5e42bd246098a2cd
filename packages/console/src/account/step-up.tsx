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

export function StepUpFields() {
  return (
    <>
      <TextField
        name="password"
        label="Your password"
        type="password"
        autoComplete="current-password"
        required
      />
      <CodeIfOn />
    </>
  );
}

/** For calls that need a code of users who have the app, and no password. */
export function CodeIfOn({ needed = true }: { needed?: boolean }) {
  const { data: me } = useWhoAmI();
  if (me?.totp?.enabled !== true || !needed) return null;
  return (
    <TextField
      name="code"
      label="Code of your authenticator app"
      inputMode="numeric"
      pattern="\d{6}"
      autoComplete="one-time-code"
      required
    />
  );
}

export function stepUp(values: FormValues): { password: string; totp_code?: string } {
  const code = values.text("code");
  return { password: values.text("password"), ...(code === "" ? {} : { totp_code: code }) };
}
