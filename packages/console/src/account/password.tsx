import { useClient, useSession } from "../session/session.tsx";
import { CheckField, Form, TextField } from "../ui/form.tsx";
import { StepUpFields, stepUp } from "./step-up.tsx";

export function Password() {
  const client = useClient();
  const { replace } = useSession();
  return (
    <section className="card" aria-label="Password">
      <h2>Password</h2>
      <Form
        label="Change the password"
        action="Change it"
        done="Changed. Earlier sessions have ended."
        submit={async (values) =>
          replace(
            await client.auth.changePassword({
              ...stepUp(values),
              new_password: values.text("new"),
              revoke_keys: values.checked("keys"),
            }),
          )
        }
      >
        <StepUpFields />
        <TextField
          label="New password"
          name="new"
          type="password"
          autoComplete="new-password"
          required
        />
        <CheckField label="Revoke the keys that sessions made" name="keys" checked />
      </Form>
    </section>
  );
}
