/** The password, and the code of the authenticator app if there is one, for calls that need both. */
import { useQuery } from "@tanstack/react-query";
import { useClient } from "../session/session.tsx";
import { type FormValues, TextField } from "../ui/form.tsx";

export function useWhoAmI() {
  const client = useClient();
  return useQuery({ queryKey: ["whoami"], queryFn: () => client.auth.whoami() });
}

export function StepUpFields() {
  const { data: me } = useWhoAmI();
  return (
    <>
      <TextField
        name="password"
        label="Your password"
        type="password"
        autoComplete="current-password"
        required
      />
      {me?.totp?.enabled === true ? (
        <TextField
          name="code"
          label="Code of your authenticator app"
          inputMode="numeric"
          pattern="\d{6}"
          autoComplete="one-time-code"
          required
        />
      ) : null}
    </>
  );
}

export function stepUp(values: FormValues): { password: string; totp_code?: string } {
  const code = values.text("code");
  return { password: values.text("password"), ...(code === "" ? {} : { totp_code: code }) };
}
